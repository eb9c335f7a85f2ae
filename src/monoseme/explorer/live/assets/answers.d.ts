// Written by monoseme.explorer.live.schema.declarations; a test holds them together.

/** All runs that are served. */
export interface Runs {
  runs: Array<Run>;
}

/** One run: its place in the list, what it is, how many blocks, and what can be tried on it, or why nothing can. */
export interface Run {
  number: number;
  title: string;
  kind: string;
  facts: Record<string, string>;
  notes: Array<string>;
  numbers: Array<Number>;
  blocks: number;
  tries: string;
  why: string;
}

/** An outcome: a value with its interval over n units, or None with the reason in `note`. */
export interface Number {
  name: string;
  value: number | null;
  low: number | null;
  high: number | null;
  confidence: number;
  n: number | null;
  n_unit: string;
  unit: string;
  better: string | null;
  note: string;
}

/** A piece of the table of blocks: names of the columns, blocks that were found in all, and the piece. */
export interface Blocks {
  columns: Array<string>;
  total: number;
  rows: Array<Block>;
}

/** One block's numbers, by column; None where not known. */
export interface Block {
  block: number;
  numbers: Array<number | null>;
}

/** One block whole: its numbers, the samples it fires on most, and where its codes lie. */
export interface Card {
  block: number;
  size: number;
  numbers: Array<Number>;
  shown: Array<Seen>;
  cloud: Array<Array<number>>;
}

/** A held-out sample that a block fires on: tokens (of a text), and presence and place at those where it does. */
export interface Seen {
  sample: string;
  label: string;
  height: number;
  width: number;
  tokens: Array<string>;
  positions: Array<number>;
  presence: Array<number>;
  place: Array<Array<number>>;
}

/** Two runs side by side. */
export interface Comparison {
  rows: Array<Compared>;
}

/** One number in two runs; None where a run has none of that name. */
export interface Compared {
  name: string;
  first: Number | null;
  second: Number | null;
}

/** What a featurizer makes of a picture or a text: tokens (of a text), grid, blocks by energy, FVU of the rows. */
export interface Tried {
  height: number;
  width: number;
  tokens: Array<string>;
  blocks: Array<Fired>;
  fvu: number | null;
  note: string;
}

/** A block that fires on what was tried: presence at every token of the grid, and its share of the code's energy. */
export interface Fired {
  block: number;
  share: number;
  presence: Array<number>;
}

/** What a block looks like from within: dimensions it uses, walks along it, certificates; or why there are none. */
export interface Shape {
  block: number;
  size: number;
  dimension: Array<Number>;
  walk: Walk;
  verdicts: Array<Verdict>;
  uncertified: string;
}

/** Walks along a block's self-organising map, in equal steps: its topology and the reason for it; or why none. */
export interface Walk {
  topology: string;
  reason: string;
  numbers: Array<Number>;
  ways: Array<Way>;
  why: string;
}

/** One walk on a map; a closed one ends where it began. */
export interface Way {
  name: string;
  closed: boolean;
  waypoints: Array<Waypoint>;
}

/** A code on a walk, by its place, and the code nearest to it on the card: item of `shown`, token, and how far away. */
export interface Waypoint {
  place: Array<number>;
  shown: number;
  token: number;
  away: number;
}

/** What was proved about one feature of a block; `partners` are the blocks that a removal moves. */
export interface Verdict {
  feature: number;
  side: number;
  verdict: string;
  meaning: string;
  reason: string;
  numbers: Array<Number>;
  partners: Array<number>;
}

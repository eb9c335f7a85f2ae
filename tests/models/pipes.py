"""A pipeline in the manner of diffusers, without it: a U-Net that is asked twice, and a loop over falling times."""

from typing import Any

import torch
from torch import Tensor, nn

from monoseme.core.seeds import generator

WIDTH, SIDE = 4, 3


class Attention(nn.Module):
    """Returns a tuple, as the transformers of diffusers do."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor, prompt: Tensor) -> tuple[Tensor]:
        return (x + torch.tanh(self.mix(x) + prompt[:, :, None, None]),)


class Level(nn.Module):
    def __init__(self, attends: bool) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        if attends:
            self.attentions = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        for i, conv in enumerate(self.resnets):
            x = x + torch.tanh(conv(x))
            if hasattr(self, "attentions"):
                x = self.attentions[i](x, prompt)[0]
        return x


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down_blocks = nn.ModuleList([Level(False), Level(True)])
        self.mid_block = Level(True)

    def forward(self, sample: Tensor, timestep: Any, prompt: Tensor) -> Tensor:
        x = sample + float(torch.as_tensor(timestep).max())
        for level in (*self.down_blocks, self.mid_block):
            x = level(x, prompt)
        return x


class Pipe:
    """As SDXL's: guided where the scale is above 1, then in one batch of two halves."""

    order = 1  # passes a step

    def __init__(self) -> None:
        stream = generator(0, "pipe")
        self.unet, self.text_encoder, self._guidance_scale = UNet(), nn.Embedding(256, WIDTH), 1.0
        for net in (self.unet, self.text_encoder):
            for p in net.parameters():
                p.data = 0.4 * torch.randn(p.shape, generator=stream)

    @property
    def components(self) -> dict[str, Any]:
        return {"unet": self.unet, "text_encoder": self.text_encoder, "scheduler": object()}

    @property
    def do_classifier_free_guidance(self) -> bool:
        return self._guidance_scale > 1

    def embed(self, texts: list[str]) -> Tensor:
        return torch.stack([self.text_encoder(torch.tensor([*text.encode(), 0])).mean(0) for text in texts])

    def passes(self, x: Tensor, time: int, texts: list[str]) -> Tensor:
        if not self.do_classifier_free_guidance:
            return self.unet(x, torch.tensor(time), self.embed(texts))
        prompt = torch.cat([self.embed([""] * len(texts)), self.embed(texts)])
        free, prompted = self.unet(torch.cat([x, x]), timestep=torch.tensor(time), prompt=prompt).chunk(2)
        return free + self._guidance_scale * (prompted - free)

    @torch.no_grad()
    def __call__(
        self,
        prompt: list[str],
        generator: list[torch.Generator],
        num_inference_steps: int = 3,
        guidance_scale: float = 3.0,
        output_type: str = "pil",
    ) -> Any:
        assert output_type == "np"
        self._guidance_scale = guidance_scale
        x = torch.stack([torch.randn(WIDTH, SIDE, SIDE, generator=g) for g in generator])
        for time in range(num_inference_steps, 0, -1):
            for _ in range(self.order):
                x = x - 0.3 * self.passes(x, time, prompt)

        class Output:
            images = x[:, :3].movedim(1, -1).numpy()

        return Output()


class TwoPasses(Pipe):
    """Guides in two passes of one time each, with the prompt first."""

    def passes(self, x: Tensor, time: int, texts: list[str]) -> Tensor:
        prompted = self.unet(x, torch.tensor(time), self.embed(texts))
        free = self.unet(x, torch.tensor(time), self.embed([""] * len(texts)))
        return free + self._guidance_scale * (prompted - free)

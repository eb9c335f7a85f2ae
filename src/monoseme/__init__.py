"""monoseme: take neural networks apart, and know whether to believe what you see."""

"""The composition root. Only this folder and `config` know Hydra."""

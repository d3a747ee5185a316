"""The commands of `hasten`, one module each; `hasten.cli` puts them together."""

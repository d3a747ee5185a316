"""worker: hears generate for its own model and name, says status; keeps the engine that runs one model."""

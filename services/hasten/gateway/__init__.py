"""The HTTP edge. Hears: OpenAI's API with a tenant's key. Says: chat, cancel, models and embed. Keeps: nothing."""

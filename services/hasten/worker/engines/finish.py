"""What servers of other makers say at the end of an answer, in OpenAI's words. Pure."""

BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled"})
"""What some give as a finish reason when there was none."""
_WORDS = {
    "stop": ("end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"),
    "length": ("max_tokens", "max_output_tokens", "model_length"),
    "tool_calls": ("tool_use", "function_call"),
    "content_filter": ("safety", "recitation", "blocklist", "prohibited_content", "spii", "refusal"),
}
_KNOWN = {word: reason for reason, words in _WORDS.items() for word in (reason, *words)}


def finish_reason(said: str, *, calls: bool) -> str:
    """OpenAI's finish reason, with or without tool calls in the answer; a word that nobody knows stays as it is."""
    word = said.lower()
    reason = _KNOWN.get(word) or ("content_filter" if word.startswith("content_filter") else said)
    return "tool_calls" if calls and reason == "stop" else reason

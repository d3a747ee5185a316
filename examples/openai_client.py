"""Streams an answer with the official openai package.  Usage: openai_client.py BASE_URL API_KEY"""

import sys

from openai import APIError, OpenAI


def main(base_url: str, api_key: str) -> None:
    client = OpenAI(base_url=base_url, api_key=api_key)
    stream = client.chat.completions.create(
        model="auto",
        messages=[{"role": "user", "content": "Say hello."}],
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        if chunk.usage is not None:
            print(f"\n{chunk.usage.prompt_tokens} prompt tokens, {chunk.usage.completion_tokens} completion tokens")


if len(sys.argv) < 3:
    sys.exit("usage: openai_client.py BASE_URL API_KEY")
try:
    main(*sys.argv[1:3])
except APIError as error:
    sys.exit(f"{sys.argv[1]}: {error}")

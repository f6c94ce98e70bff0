"""Models behind an API of OpenAI's or Anthropic's form, without a program: in dispatch, by pydantic-ai."""

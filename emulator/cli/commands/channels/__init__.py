"""Commands about the platforms: their accounts."""

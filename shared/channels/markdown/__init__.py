"""Markdown to runs of styled text, cut to a platform's limit.

The text is parsed once into blocks of runs. A run is text with its styles, outermost first. A cut between or inside
runs therefore can't break markup: every chunk opens and closes its own, and a cut code block opens again with its
language. The best place to cut is between blocks, then at a line, a sentence, a word. A cut inside an emoji is the last
resort.

Grammar: https://spec.commonmark.org, with tables and strikethrough. Raw HTML and link definitions stay text.
"""

"""Families that write all words of a sentence at once, or in a few passes, instead of one after another.

Their decoder is the same stack without the look-ahead mask. What each lacks is how the words of one sentence hang together,
and the families differ in what they put in its place. Shapes as in `tfm_cli.transformer`, where T counts the positions of the
decoder's row, which may be more than the tokens of the sentence.
"""

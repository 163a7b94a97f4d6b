"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017), tensors only.

Shapes, said once for the whole room:

====  =======================================================================
B     batch: sentences
R     rows: beams of all sentences in a decoding step, ``R = B * beams``
S     source positions
T     target positions
D     model width, ``d_model`` in the paper
H     heads
K     width of one head, ``K = D / H`` (``d_k`` in the paper)
F     inner width of the feed-forward layer, ``d_ff`` in the paper
V     vocabulary
====  =======================================================================

A mask has one meaning: **True = may be attended to.**
"""

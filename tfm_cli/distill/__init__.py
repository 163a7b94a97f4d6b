"""Sequence-level knowledge distillation (Kim and Rush 2016, section 3.2): training pairs whose targets a teacher wrote.

A teacher says the same thing in the same words each time, and a student that writes all words at once learns that far better
than the many ways of people. What is written is a data folder like that of `preprocess`: the same sources, tokenizer,
validation and test pairs. The teacher's answers are kept in shards beside the output until it is whole, so that a second start
goes on after the last of them.
"""

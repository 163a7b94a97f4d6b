"""The ids that every vocabulary keeps for control, the same in every model. Text never encodes to them."""

PAD, BEGIN, END, MASK, BLANK = range(5)

NAMES = ("<pad>", "<s>", "</s>", "<mask>", "<blank>")
COUNT = len(NAMES)

"""What runs a trained model: torch itself, or CTranslate2, which needs no torch and is faster on a CPU."""

"""A migration whose cuts lie ahead: proposed, open, settled, or taken back."""

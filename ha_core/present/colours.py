"""Colours of pictures: Okabe and Ito's, which colour-blind people can tell apart."""

BLUE, VERMILION, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
ORANGE, YELLOW, BLACK, GREY = "#E69F00", "#F0E442", "#000000", "#999999"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, YELLOW, BLACK, GREY)
INK, FAINT = "#222222", "#8a8a8a"

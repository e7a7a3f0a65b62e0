"""Regular expressions as libstdc++ reads ECMAScript, carried out by engines that cannot hang."""

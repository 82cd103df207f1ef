"""A small English discourse parser: numpy at run time, trained with torch by `discorank train rst`."""

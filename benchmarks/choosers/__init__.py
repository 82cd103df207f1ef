"""What choosers and the judgements behind them are worth; see docs/choosers.md and docs/choosing-figures.md."""

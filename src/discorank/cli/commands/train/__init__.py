"""``discorank train KIND``: `train_metrics` trains models of metrics, `train_weights` weights by judgements."""

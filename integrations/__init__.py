"""Where candidates come from: file formats and generators."""

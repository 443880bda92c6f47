"""A miniature pair of vision-language models, small enough to train and serve on any CPU."""

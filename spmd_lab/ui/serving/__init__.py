"""How a model is served: the view of Predict that answers it."""

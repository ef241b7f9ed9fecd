"""A training plan: model, mesh, batch, rematerialization."""

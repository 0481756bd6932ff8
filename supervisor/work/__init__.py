"""What a worker does: come by a task, keep its claim, call the model, hand in or give back."""

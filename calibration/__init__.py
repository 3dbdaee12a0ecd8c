"""What is this bench really: identification and compensation, through the bench interface alone."""

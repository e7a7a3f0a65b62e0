"""The store worker: brings files here, checks them, keeps them within bounds, and keeps users' policies."""

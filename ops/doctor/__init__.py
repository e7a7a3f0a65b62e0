"""What `fairlane doctor` looks at: each check looks and says, none changes anything."""

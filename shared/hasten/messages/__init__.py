"""The messages of hasten, one module per conversation; each declares its Structs and the topics they travel on."""

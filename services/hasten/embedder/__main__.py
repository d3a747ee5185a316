from hasten.run import main

main("embedder")

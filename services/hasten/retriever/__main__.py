from hasten.run import main

main("retriever")

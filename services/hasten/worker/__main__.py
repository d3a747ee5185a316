from hasten.run import main

main("worker")

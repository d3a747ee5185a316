from hasten.run import main

main("router")

from hasten.run import main

main("gateway")

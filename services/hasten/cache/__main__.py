from hasten.run import main

main("cache")

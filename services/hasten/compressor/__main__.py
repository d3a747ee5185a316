from hasten.run import main

main("compressor")

from hasten.run import main

main("orchestrator")

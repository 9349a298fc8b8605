from ottla.cli.main import main

main()

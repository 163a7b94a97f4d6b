from tfm_cli.cli.app import main

main()

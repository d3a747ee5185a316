"""The operator's rules on what readers are shown: of the stream no more waits than may match."""

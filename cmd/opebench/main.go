// Opebench measures what order-preserving encryption of a column costs in a wide-column store, and checks
// every answer against the plaintext.
package main

import (
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab"
	"github.com/rangecrypt/rangecrypt/internal/cli"
)

func main() { cli.Main(lab.New) }

// Opebench measures what order-preserving encryption of a column costs in a wide-column store,
// and checks every answer against the plaintext.
package main

import "os"

func main() {
	os.Exit(int(execute(system(), os.Args[1:])))
}

// Rangecrypt administers encrypted tables: their keys, schemas and tenants. It also checks and repairs them.
package main

import (
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin"
	"github.com/rangecrypt/rangecrypt/internal/cli"
)

func main() { cli.Main(admin.New) }

// Package ppc repeats figures and tables of Iyer, Mehrotra, Mykletun, Tsudik and Wu (EDBT 2004): pages whose sensitive attributes
// are encrypted together, on the tables of TPC-H.
package ppc

import (
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// Figures returns the figures and tables of the paper.
func Figures() []experiment.Figure { return slices.Concat(table1Figures, queryFigures, tpchFigures) }

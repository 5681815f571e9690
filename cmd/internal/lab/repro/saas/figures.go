// Package saas repeats figures of Rafique, Van Landuyt, Reniers and Joosen (IEEE BigData 2017): log entries of several tenants, of
// which some attributes are encrypted.
package saas

import (
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// Figures returns the figures and tables of the paper.
func Figures() []experiment.Figure { return saasFigures }

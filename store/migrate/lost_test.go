package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A step that was made is no error where the answer of the database was lost, and one of which nobody knows says so, also if the
// catalogue cannot be read afterwards.
func TestStepsWhoseAnswersAreLost(t *testing.T) {
	steps := []struct {
		name, phase string
		before      func(*stage)
		do          func(*stage) error
	}{
		{"prepare", "prepared", func(*stage) {}, func(s *stage) error {
			_, err := s.m.Prepare(s.ctx, false)
			return err
		}},
		{"abort", "aborted", (*stage).prepare, func(s *stage) error { return s.m.Abort(s.ctx) }},
		{"cut over", "cut over", (*stage).verified, func(s *stage) error { return s.m.Cutover(s.ctx) }},
		{"copy", "copying", (*stage).prepare, func(s *stage) error {
			_, err := s.m.Copy(s.ctx, inspect.Part{Of: 1}, nil)
			return err
		}},
	}
	for _, step := range steps {
		for _, unreachable := range []bool{false, true} {
			name := step.name
			if unreachable {
				name += " of what cannot be read"
			}
			t.Run(name, func(t *testing.T) {
				armed, lost := false, false
				s := newStageIn(t, drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
					switch {
					case !armed || op.Family != "catalogue":
					case op.Conditional() && !lost:
						lost = true
						return drivertest.FailAfter
					case lost && unreachable:
						return drivertest.FailBefore
					}
					return drivertest.NoFault
				}), 20, conditional)
				step.before(s)
				armed = true
				err := step.do(s)
				require.True(t, lost)
				if armed = false; unreachable {
					require.ErrorIs(t, err, driver.ErrUnknownOutcome)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, step.phase, s.phase())
			})
		}
	}
}

// A step that may yet come says so, also where the next attempt is not made.
func TestStepsThatMayYetCome(t *testing.T) {
	for _, late := range []bool{false, true} {
		attempts, armed := 0, false
		s := newStageIn(t, drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
			if !armed || op.Family != "catalogue" || !op.Conditional() {
				return drivertest.NoFault
			}
			switch attempts++; {
			case attempts > 1:
				return drivertest.FailBefore
			case late:
				return drivertest.FailLate
			}
			return drivertest.Lose
		}), 20, conditional)
		s.verified()
		armed = true
		err := s.m.Cutover(s.ctx)
		require.Greater(t, attempts, 1)
		require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	}
}

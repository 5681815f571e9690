package hooks

import (
	"context"
	"log/slog"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// Logger gives gocql's messages to slog, a level lower: the caller gets the errors anyway,
// and there are several warnings every two seconds while a node is down.
type Logger struct{ To *slog.Logger }

func (l Logger) Error(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelWarn, msg, fields)
}

func (l Logger) Warning(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelInfo, msg, fields)
}

func (l Logger) Info(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l Logger) Debug(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l Logger) log(level slog.Level, msg string, fields []gocql.LogField) {
	if l.To == nil || !l.To.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields)+1)
	attrs = append(attrs, slog.String("from", "gocql"))
	for _, f := range fields {
		attrs = append(attrs, slog.String(f.Name, f.Value.String()))
	}
	l.To.LogAttrs(context.Background(), level, msg, attrs...)
}

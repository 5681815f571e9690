package cassandra

import (
	"context"
	"log/slog"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// gocqlLogger gives gocql's messages to slog, a level lower: the caller gets the errors anyway,
// and there are several warnings every two seconds while a node is down.
type gocqlLogger struct{ to *slog.Logger }

func (l gocqlLogger) Error(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelWarn, msg, fields)
}

func (l gocqlLogger) Warning(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelInfo, msg, fields)
}

func (l gocqlLogger) Info(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l gocqlLogger) Debug(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l gocqlLogger) log(level slog.Level, msg string, fields []gocql.LogField) {
	if l.to == nil || !l.to.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields)+1)
	attrs = append(attrs, slog.String("from", "gocql"))
	for _, f := range fields {
		attrs = append(attrs, slog.String(f.Name, f.Value.String()))
	}
	l.to.LogAttrs(context.Background(), level, msg, attrs...)
}

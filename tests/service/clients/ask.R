# What R asks of the service: "== name", then what R has printed. Run by test_r.py: Rscript ask.R HOST PORT USER
# with the token in PGPASSWORD.
suppressMessages(library(RPostgreSQL))
arguments <- commandArgs(TRUE)
con <- dbConnect(PostgreSQL(), host = arguments[1], port = as.integer(arguments[2]), dbname = "dpsql", user = arguments[3])
section <- function(name, run) {
  cat("==", name, "\n")
  tryCatch(run(), error = function(e) cat("!!", conditionMessage(e), "\n"))
}
ask <- function(sql, ...) dbGetQuery(con, sql, ...)

section("query", function() {
  sql <- "SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult GROUP BY sex', epsilon => 0.1)"
  first <- ask(sql)
  again <- ask("SELECT * FROM dp_query($1, epsilon => $2::DOUBLE)",
               c("SELECT sex, count(*) AS n FROM adult GROUP BY sex", 0.1))
  cat(names(first), "\n")
  cat(first$sex, "\n")
  cat(identical(first, again), "\n")
})
section("fit", function() {
  cat(dim(ask("SELECT * FROM dp_synthesize('adult', epsilon => 0.2, columns => ['sex', 'race'], rows => 50, mechanism => 'direct')")), "\n")
})
section("plan", function() cat(ask("SELECT count(*) AS n FROM dp_plan('adult', epsilon => 0.5)")$n > 100, "\n"))
section("schema", function() {
  cat(dbListTables(con), "\n")
  cat(dbListFields(con, "shown"), "\n")
  cat(dbExistsTable(con, "shown"), dbExistsTable(con, "nope"), "\n")
})
section("released", function() {
  shown <- suppressWarnings(dbReadTable(con, "shown"))
  cat(dim(shown), "\n")
  row <- shown[shown$i == 3, ]
  for (name in names(row)) {
    shown_as <- gsub("\n", " ", format(row[[name]], digits = 15, tz = "UTC"))
    cat(name, "|", class(row[[name]])[1], "|", shown_as, "\n")
  }
})
section("parameters", function() cat(ask("SELECT i FROM shown WHERE i = $1 AND s LIKE $2", c(7, "te%"))$i, "\n"))
section("some at a time", function() {
  rows <- dbSendQuery(con, "SELECT i FROM shown ORDER BY i")
  cat(nrow(fetch(rows, 10)), nrow(fetch(rows, -1)), "\n")
  invisible(dbClearResult(rows))
})
section("transaction", function() {
  dbBegin(con)
  cat(ask("SELECT 1 AS one")$one, "\n")
  invisible(dbCommit(con))
})
section("error", function() {
  suppressWarnings(ask("SELECT nope FROM shown"))
  cat(gsub("\n", " ", dbGetException(con)$errorMsg), "\n")
})
section("after", function() cat(ask("SELECT 2 AS two")$two, "\n"))
invisible(dbDisconnect(con))

/* The native part of dpsql, all of it: what Python cannot do through ctypes alone.
 *
 * 1. DuckDB loads this file as an extension of its stable C API and calls dpsql_init_c_api(). The handle of the
 *    loading instance goes to a callback set from Python, which registers the table functions through the C API
 *    that the duckdb wheel exports.
 * 2. While a table function works, DuckDB may hold the main thread inside C++, so a Python signal handler runs too
 *    late. dpsql_watch_interrupts() counts Ctrl-C in a C handler that any thread can poll.
 */
#include <stdbool.h>
#include <stddef.h>

#if defined(_WIN32)
#include <windows.h>
#define EXPORT __declspec(dllexport)
#else
#include <signal.h>
#define EXPORT __attribute__((visibility("default")))
#endif

typedef struct _duckdb_database { void *internal_ptr; } *duckdb_database;
typedef struct _duckdb_extension_info { void *internal_ptr; } *duckdb_extension_info;
struct duckdb_extension_access {
  void (*set_error)(duckdb_extension_info info, const char *error);
  duckdb_database *(*get_database)(duckdb_extension_info info);
  const void *(*get_api)(duckdb_extension_info info, const char *version);
};

typedef int (*load_callback)(duckdb_database *database);

/* DuckDB may load on a thread of its own, so not thread-local: Python sets it and runs LOAD under one lock. */
static load_callback on_load;

EXPORT void dpsql_set_callback(load_callback callback) { on_load = callback; }

/* DuckDB looks for <file name without .duckdb_extension>_init_c_api. Returns true when every function is registered. */
EXPORT bool dpsql_init_c_api(duckdb_extension_info info, struct duckdb_extension_access *access) {
  if (!access->get_api(info, "v1.2.0")) {
    access->set_error(info, "dpsql needs a DuckDB with the C API v1.2.0: pip install 'duckdb>=1.5.5'");
    return false;
  }
  if (!on_load) {
    access->set_error(info, "dpsql is loaded from Python: use dpsql.connect(path) or dpsql.install(connection)");
    return false;
  }
  if (on_load(access->get_database(info)) != 0) {
    access->set_error(info, "dpsql could not register its functions");
    return false;
  }
  return true;
}

static volatile long interrupts; /* Ctrl-C presses seen since the process began */
static long watchers;            /* nested watches; Python calls both functions under one lock */

EXPORT long dpsql_interrupts(void) { return interrupts; }

#if defined(_WIN32)
static BOOL WINAPI on_console_event(DWORD event) {
  if (event != CTRL_C_EVENT) return FALSE;
  InterlockedIncrement(&interrupts);
  return TRUE;
}
EXPORT void dpsql_watch_interrupts(void) {
  if (watchers++ == 0) SetConsoleCtrlHandler(on_console_event, TRUE);
}
EXPORT void dpsql_unwatch_interrupts(void) {
  if (--watchers == 0) SetConsoleCtrlHandler(on_console_event, FALSE);
}
#else
static struct sigaction previous;
static void on_sigint(int signal) {
  (void)signal;
  __atomic_add_fetch(&interrupts, 1, __ATOMIC_RELAXED);
}
EXPORT void dpsql_watch_interrupts(void) {
  if (watchers++ == 0) {
    struct sigaction action = {0};
    action.sa_handler = on_sigint;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &previous);
  }
}
EXPORT void dpsql_unwatch_interrupts(void) {
  if (--watchers == 0) sigaction(SIGINT, &previous, NULL);
}
#endif

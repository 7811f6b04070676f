// What pgjdbc asks of the service, a section at a time: "== name", then lines of values parted by " | ".
// An error in a section is a line "!! SQLSTATE text". Run by test_jdbc.py: java -cp postgresql.jar Ask.java URL USER PASSWORD
// CERTIFICATE, which is another one than the service's.

import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.UUID;

public class Ask {
  static final String QUERY =
      "SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult GROUP BY sex', epsilon => 0.1)";
  static final String FIT =
      "SELECT * FROM dp_synthesize('adult', epsilon => 0.2, columns => ['sex', 'race'], rows => 50, mechanism => 'direct')";
  static final String LONG =
      "SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x * y % 7 = 3";

  interface Section {
    void run(Connection connection) throws Exception;
  }

  static String url;
  static Properties login = new Properties();

  static Connection shared;

  static Connection connect(String where, String... more) throws SQLException {
    Properties properties = new Properties();
    properties.putAll(login);
    for (int n = 0; n < more.length; n += 2) properties.setProperty(more[n], more[n + 1]);
    return DriverManager.getConnection(where, properties);
  }

  static void section(String name, Section section) {
    System.out.println("== " + name);
    try {
      if (shared == null) shared = connect(url);
      section.run(shared);
    } catch (SQLException error) {
      System.out.println("!! " + error.getSQLState() + " " + error.getMessage().replace("\n", " "));
    } catch (Exception error) {
      System.out.println("!! " + error);
    }
  }

  static String text(ResultSet rows, int place) throws SQLException {
    Object value = rows.getObject(place);
    if (value instanceof byte[]) return HexFormat.of().formatHex((byte[]) value);
    if (value instanceof Array) return Arrays.toString((Object[]) ((Array) value).getArray());
    return String.valueOf(rows.getString(place));
  }

  static void show(ResultSet rows) throws SQLException {
    int count = rows.getMetaData().getColumnCount();
    while (rows.next()) {
      List<String> shown = new ArrayList<>();
      for (int place = 1; place <= count; place++) shown.add(text(rows, place));
      System.out.println(String.join(" | ", shown).replace("\n", "\\n").replace("\t", "\\t"));
    }
  }

  static void show(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      show(rows);
    }
  }

  /** A column's value as Java's object and as text; what both formats of the protocol must agree on. */
  static void types(Connection connection) throws SQLException {
    String sql = "SELECT * FROM shown WHERE i = ?";
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int i = 0; i < 8; i++) {
        statement.setLong(1, 3);
        try (ResultSet rows = statement.executeQuery()) {
          rows.next();
          ResultSetMetaData told = rows.getMetaData();
          for (int place = 1; place <= told.getColumnCount() && (i == 0 || i == 7); place++) {
            Object value = rows.getObject(place);
            String of = value == null ? "null" : value.getClass().getSimpleName();
            String shown = text(rows, place).replace("\n", "\\n").replace("\t", "\\t");
            System.out.println(String.join(" | ", told.getColumnLabel(place), told.getColumnTypeName(place), of, shown));
          }
          if (i == 0) System.out.println("-- binary");
        }
      }
    }
  }

  /** Parameters of many types, eight times: from the sixth on the statement has a name and values are binary. */
  static void parameters(Connection connection) throws SQLException {
    String sql = "SELECT ?::INTEGER + 1, ?::VARCHAR, ?::DOUBLE, ?::DECIMAL(9, 2), ?::BOOLEAN, ?::DATE, ?::TIMESTAMP, ?::UUID, "
        + "? + whole, ?::BLOB FROM shown WHERE small < ? AND s LIKE ? AND d > ? AND x < ? AND n > ? AND b = ?";
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int i = 0; i < 8; i++) {
        statement.setInt(1, i);
        statement.setString(2, "it's " + i);
        statement.setDouble(3, i / 2.0);
        statement.setBigDecimal(4, new BigDecimal("12.34"));
        statement.setBoolean(5, i % 2 == 0);
        statement.setDate(6, Date.valueOf("2020-02-29"));
        statement.setTimestamp(7, Timestamp.valueOf("2020-02-29 12:34:56.789"));
        statement.setObject(8, UUID.fromString("00000000-0000-0000-0000-00000000000" + i));
        statement.setLong(9, 100L);
        statement.setBytes(10, new byte[] {0, (byte) 0xff, (byte) i});
        statement.setShort(11, (short) 7);
        statement.setString(12, "text%");
        statement.setDate(13, Date.valueOf("2000-01-03"));
        statement.setBigDecimal(14, new BigDecimal("99"));
        statement.setDouble(15, 1.9);
        statement.setBoolean(16, true);
        try (ResultSet rows = statement.executeQuery()) {
          show(rows);
        }
      }
      statement.setNull(1, Types.INTEGER);
      statement.setNull(2, Types.VARCHAR);
      try (ResultSet rows = statement.executeQuery()) {
        show(rows);
      }
      System.out.println(statement.getMetaData().getColumnCount() + " columns, "
          + statement.getParameterMetaData().getParameterCount() + " parameters");
    }
  }

  static void cursor(Connection connection) throws SQLException {
    connection.setAutoCommit(false);
    try (Statement statement = connection.createStatement()) {
      statement.setFetchSize(64);
      try (ResultSet rows = statement.executeQuery("SELECT i FROM shown ORDER BY i");
          Statement inner = connection.createStatement()) {
        long sum = 0;
        int count = 0;
        while (rows.next()) {
          sum += rows.getLong(1);
          count++;
          if (count == 100) show(connection, "SELECT 'between'");
        }
        System.out.println(count + " rows, sum " + sum);
      }
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  static void arrays(Connection connection) throws SQLException {
    String sql = "SELECT * FROM dp_synthesize('adult', epsilon => 0.2, columns => ?, rows => 50, mechanism => 'direct')";
    try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM (" + sql + ")")) {
      statement.setArray(1, connection.createArrayOf("text", new String[] {"sex", "race"}));
      show(statement.executeQuery());
    }
    try (PreparedStatement statement = connection.prepareStatement("SELECT i FROM shown WHERE i = ANY(?) ORDER BY i")) {
      statement.setArray(1, connection.createArrayOf("bigint", new Long[] {3L, 5L}));
      show(statement.executeQuery());
    }
    show(connection, "SELECT ['a', NULL, 'b \"c\"', ''], [1.5, 2], []::INTEGER[], [DATE '2020-02-29']");
  }

  static void metadata(Connection connection) throws SQLException {
    DatabaseMetaData told = connection.getMetaData();
    System.out.println(told.getDatabaseProductName() + " | " + connection.getCatalog() + " | " + connection.getSchema());
  }

  static void cancel(Connection connection) throws Exception {
    try (Statement statement = connection.createStatement()) {
      Thread canceller = new Thread(() -> {
        try {
          Thread.sleep(1000);
          statement.cancel();
        } catch (Exception error) {
          System.out.println("!! " + error);
        }
      });
      canceller.start();
      try {
        statement.executeQuery(LONG);
      } catch (SQLException error) {
        System.out.println(error.getSQLState() + " | " + error.getMessage());
      }
      canceller.join();
      statement.setQueryTimeout(1);
      try {
        statement.executeQuery(LONG);
      } catch (SQLException error) {
        System.out.println(error.getSQLState() + " | " + error.getMessage());
      }
    }
    show(connection, "SELECT 'alive'");
  }

  static void errors(Connection connection) throws SQLException {
    String[] wrong = {"SELECT nope FROM shown", "SELECT * FROM nope", "SELEC 1", "SELECT 'x'::INTEGER",
        "DROP TABLE shown", QUERY.replace("0.1", "50"), QUERY.replace("adult", "nope")};
    for (String sql : wrong) {
      try (Statement statement = connection.createStatement()) {
        statement.executeQuery(sql);
        System.out.println("nothing | " + sql);
      } catch (SQLException error) {
        System.out.println(error.getSQLState() + " | " + sql);
      }
    }
  }

  /** What tools call when they connect, and for a list of tables. */
  static void tools(Connection connection) throws SQLException {
    connection.setReadOnly(true);
    connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
    System.out.println("isolation " + connection.getTransactionIsolation());
    connection.setSchema("main");
    System.out.println("schema " + connection.getSchema());
    System.out.println("valid " + connection.isValid(5));
    connection.setClientInfo("ApplicationName", "it's a tool");
    System.out.println("name " + connection.getClientInfo("ApplicationName"));
    connection.setAutoCommit(false);
    java.sql.Savepoint before = connection.setSavepoint();
    show(connection, "SELECT 1");
    connection.rollback(before);
    connection.rollback();
    connection.setAutoCommit(true);
    show(connection, "SHOW search_path");
    show(connection, "SELECT current_schema(), session_user, current_user, current_database(), version()");
    try (Statement statement = connection.createStatement()) {
      statement.setMaxRows(5);
      ResultSet rows = statement.executeQuery("SELECT i FROM shown ORDER BY i");
      int count = 0;
      while (rows.next()) count++;
      System.out.println(count + " rows of at most 5");
    }
  }

  public static void main(String[] arguments) {
    url = arguments[0];
    login.setProperty("user", arguments[1]);
    login.setProperty("password", arguments[2]);
    section("query", c -> show(c, QUERY));
    section("again", c -> {
      try (PreparedStatement statement = c.prepareStatement(
          "SELECT * FROM dp_query(?, epsilon => ?)")) {
        statement.setString(1, "SELECT sex, count(*) AS n FROM adult GROUP BY sex");
        statement.setDouble(2, 0.1);
        show(statement.executeQuery());
      }
    });
    section("fit", c -> show(c, "SELECT count(*) FROM (" + FIT + ")"));
    section("plan", c -> show(c, "SELECT count(*) > 100 FROM dp_plan('adult', epsilon => 0.5)"));
    section("released", c -> show(c, "SELECT i, s FROM shown WHERE i = 7"));
    section("types", Ask::types);
    section("parameters", Ask::parameters);
    section("cursor", Ask::cursor);
    section("arrays", Ask::arrays);
    section("product", Ask::metadata);
    section("schemas", c -> show(c.getMetaData().getSchemas()));
    section("catalogs", c -> show(c.getMetaData().getCatalogs()));
    section("table types", c -> show(c.getMetaData().getTableTypes()));
    section("tables", c -> show(c.getMetaData().getTables(null, "main", "%", new String[] {"TABLE", "VIEW"})));
    section("all tables", c -> show(c.getMetaData().getTables("dpsql", null, null, null)));
    section("columns", c -> show(c.getMetaData().getColumns(null, null, "shown", "%")));
    section("type info", c -> show(c.getMetaData().getTypeInfo()));
    section("primary keys", c -> show(c.getMetaData().getPrimaryKeys(null, "main", "shown")));
    section("imported keys", c -> show(c.getMetaData().getImportedKeys(null, "main", "shown")));
    section("exported keys", c -> show(c.getMetaData().getExportedKeys(null, "main", "shown")));
    section("indexes", c -> show(c.getMetaData().getIndexInfo(null, "main", "shown", false, true)));
    section("best row", c -> show(c.getMetaData().getBestRowIdentifier(null, "main", "shown", 2, true)));
    section("versions", c -> show(c.getMetaData().getVersionColumns(null, "main", "shown")));
    section("table privileges", c -> show(c.getMetaData().getTablePrivileges(null, "main", "shown")));
    section("column privileges", c -> show(c.getMetaData().getColumnPrivileges(null, "main", "shown", "i")));
    section("procedures", c -> show(c.getMetaData().getProcedures(null, null, "%")));
    section("functions", c -> show(c.getMetaData().getFunctions(null, null, "%")));
    section("function columns", c -> show(c.getMetaData().getFunctionColumns(null, null, "dp_query", "%")));
    section("procedure columns", c -> show(c.getMetaData().getProcedureColumns(null, null, "dp_query", "%")));
    section("udts", c -> show(c.getMetaData().getUDTs(null, null, "%", null)));
    section("sql keywords", c -> System.out.println(c.getMetaData().getSQLKeywords().length() > 0));
    section("user name", c -> System.out.println(c.getMetaData().getUserName()));
    section("lengths", c -> System.out.println(c.getMetaData().getMaxColumnNameLength()));
    section("client info", c -> show(c.getMetaData().getClientInfoProperties()));
    section("column facts", c -> {
      try (Statement s = c.createStatement(); ResultSet rows = s.executeQuery("SELECT i, s AS words, x FROM shown LIMIT 1")) {
        ResultSetMetaData m = rows.getMetaData();
        for (int n = 1; n <= 3; n++)
          System.out.println(String.join(" | ", m.getColumnName(n), m.getTableName(n), m.getSchemaName(n), "" + m.isNullable(n),
              "" + m.isAutoIncrement(n), "" + m.getPrecision(n), "" + m.getScale(n), "" + m.getColumnDisplaySize(n), m.getColumnClassName(n)));
      }
    });
    section("cancel", Ask::cancel);
    section("errors", Ask::errors);
    section("tools", Ask::tools);
    section("simple", c -> {
      try (Connection simple = connect(url, "preferQueryMode", "simple")) {
        show(simple, "SELECT i, s FROM shown WHERE i = 7");
      }
    });
    section("wrong password", c -> connect(url, "password", "wrong"));
    section("no tls", c -> connect(url.replace("verify-full", "disable")));
    section("unknown certificate", c -> connect(url.replaceAll("sslrootcert=[^&]*", "sslrootcert=" + arguments[3])));
  }
}

// Each value, read seven times and sent back seven times: from the sixth run on pgjdbc has binary values. A line a run.
// Run by test_values.py: java -cp postgresql.jar Values.java FILE URL USER PASSWORD. Each line of FILE has a type and a
// literal of the server's, parted by a tab; `SELECT ?::type` is sent with the value that the literal had.

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

public class Values {
  static String shown(Object value) {
    if (value instanceof byte[]) return HexFormat.of().formatHex((byte[]) value);
    if (value instanceof Timestamp) return ((Timestamp) value).getTime() + " " + ((Timestamp) value).getNanos();
    if (value instanceof java.util.Date) return String.valueOf(((java.util.Date) value).getTime());
    if (value instanceof Object[]) {
      List<String> parts = new ArrayList<>();
      for (Object part : (Object[]) value) parts.add(shown(part));
      return parts.toString();
    }
    return String.valueOf(value);
  }

  static Object read(PreparedStatement statement, String head) throws SQLException {
    try (ResultSet rows = statement.executeQuery()) {
      rows.next();
      Object value = rows.getObject(1);
      String text = value instanceof Number || value instanceof Array || value instanceof byte[] ? "" : rows.getString(1);
      String type = rows.getMetaData().getColumnTypeName(1);
      Object shown = value instanceof Array ? ((Array) value).getArray() : value;
      System.out.println((head + " | " + type + " | " + shown(shown) + " | " + text).replace("\n", "\\n"));
      return value;
    }
  }

  public static void main(String[] arguments) throws Exception {
    String settings = "&stringtype=unspecified";
    try (Connection connection = DriverManager.getConnection(arguments[1] + settings, arguments[2], arguments[3])) {
      for (String line : Files.readAllLines(Path.of(arguments[0]))) {
        String[] words = line.split("\t", 2);
        Object value = null;
        try (PreparedStatement statement = connection.prepareStatement("SELECT " + words[1])) {
          for (int run = 1; run <= 7; run++) value = read(statement, "read " + run + " " + words[0]);
        } catch (Exception error) {
          System.out.println("!! read " + words[0] + " " + error.getClass().getSimpleName());
          continue;
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?::" + words[0])) {
          for (int run = 1; run <= 7; run++) {
            statement.setObject(1, value);
            read(statement, "sent " + run + " " + words[0]);
          }
        } catch (Exception error) {
          System.out.println("!! sent " + words[0] + " " + error.getMessage());
        }
      }
    }
  }
}

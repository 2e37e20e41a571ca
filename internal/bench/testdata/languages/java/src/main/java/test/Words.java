package test;

/** Turns words around. */
public final class Words {
    private Words() {}

    /** Returns the text from its end to its beginning. */
    public static String reverse(String text) {
        return new StringBuilder(text).reverse().toString();
    }
}

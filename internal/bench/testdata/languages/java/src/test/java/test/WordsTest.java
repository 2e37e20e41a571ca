package test;

import static org.junit.Assert.assertEquals;

import org.junit.Test;

public class WordsTest {
    @Test
    public void aWordIsTurnedAround() {
        assertEquals("olleh", Words.reverse("hello"));
    }
}
